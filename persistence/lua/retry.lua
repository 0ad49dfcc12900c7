-- Lift a conversation's quarantine; it then needs attention.
--
-- KEYS  head (hash)   attention (sorted set)
--       Index keys (sorted sets) are made from the bucket's prefix, ARGV[2]; they share the slot.
-- ARGV  1 conversation id   2 bucket prefix
-- Returns {'ok'} | {'no'} | {'corrupt', what}

local conversation, prefix = ARGV[1], ARGV[2]
local h = redis.call('HMGET', head, 'quarantine', 'index', 'plain_index', 'busy', 'due', 'seq', 'leaves')
if not h[1] then return {'no'} end
if h[5] ~= '' and bad(h[5]) then return {'corrupt', 'the head: a number is malformed'} end
local after, gone, come = nil, {}, {}
if h[3] then -- else its index entries were unreadable at the quarantine, and unchanged since
  local before = standing(h[2] or '')
  after = standing(h[3])
  if not before or not after then return {'corrupt', 'the head: the index entries'} end
  gone, come = changes(prefix, conversation, before, after)
  if not gone then return {'corrupt', come} end
end

-- Everything is checked: write.
if after then redis.call('HSET', head, 'index', cmsgpack.pack(after)) end
redis.call('HDEL', head, 'quarantine', 'quarantined_at', 'plain_index', 'strikes', 'company')
change(gone, come)
local seq = integer(h[6]) or 0
if after then note_change(prefix, conversation, seq + 1, seq, cmsgpack.pack(after)) end
attend(attention, conversation, h[4], clock(), h[5], h[7])
return {'ok'}
