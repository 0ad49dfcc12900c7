-- Write a conversation's index entries anew, if its log still ends where the state did that they were made from.
--
-- KEYS  1 head (hash)   2 log (stream)   3 attention (sorted set)
--       Index keys (sorted sets) are made from the bucket's prefix, ARGV[2]; they share the slot.
-- ARGV  1 conversation id   2 bucket prefix   3 expected seq   4 packed index entries   5 busy 0|1   6 earliest deadline or ''
-- Returns {'ok'} | {'moved'} | {'corrupt', what}

local head, log, attention = KEYS[1], KEYS[2], KEYS[3]
local conversation, prefix, packed, busy, due = ARGV[1], ARGV[2], ARGV[4], ARGV[5], ARGV[6]
local expected = integer(ARGV[3])
if not expected or (busy ~= '0' and busy ~= '1') or (due ~= '' and not integer(due)) then return {'corrupt', 'arguments'} end
if not is(head, 'hash') then return {'corrupt', 'the head is no hash'} end
if not is(log, 'stream') then return {'corrupt', 'the log is no stream'} end
if not is(attention, 'zset') then return {'corrupt', 'the attention index is no sorted set'} end
local h = redis.call('HMGET', head, 'seq', 'index', 'lease', 'quarantine')
if bad(h[1]) or bad(h[3]) then return {'corrupt', 'the head: a number is none'} end
if tonumber(h[1] or '0') ~= expected then return {'moved'} end
local ok, shown = pcall(h[4] and quarantined or tostring, packed)
if not ok then return {'corrupt', 'arguments: the index entries'} end
local old = h[2]
if not pcall(entries, prefix, conversation, old) then old = '' end -- it cannot be read any more; pruning finds what is left
local gone, what = changes(prefix, conversation, old, shown)
if not gone then return {'corrupt', what} end
local _, come = changes(prefix, conversation, '', shown)

-- Everything is checked: write, also what should be there already.
redis.call('HSET', head, 'index', shown, 'busy', busy, 'due', due)
change(gone, come)
if h[4] then
  redis.call('HSET', head, 'plain_index', packed)
  redis.call('ZREM', attention, conversation)
else
  attend(attention, conversation, busy, tonumber(h[3] or clock()), due)
end
return {'ok'}
