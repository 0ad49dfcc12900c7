-- Rebuild a conversation's index entries, if its log still ends where the state behind the new entries does.
--
-- KEYS  head (hash)   log (stream)   attention (sorted set)
--       Index keys and `paused` (sorted sets) are made from the bucket's prefix, ARGV[2]; they share the slot.
-- ARGV  1 conversation id   2 bucket prefix   3 expected seq   4 packed entry in the lists   5 busy 0|1
--       6 earliest deadline or ''   7 the open suspensions, in msgpack
-- Returns {'ok'} | {'moved'} | {'corrupt', what}

local conversation, prefix, packed, busy, due = ARGV[1], ARGV[2], ARGV[4], ARGV[5], ARGV[6]
local expected = integer(ARGV[3])
if not expected or (busy ~= '0' and busy ~= '1') or (due ~= '' and not integer(due)) then return {'corrupt', 'arguments'} end
local h = redis.call('HMGET', head, 'seq', 'index', 'lease', 'quarantine', 'paused', 'leaves')
if bad(h[1]) or bad(h[3]) then return {'corrupt', 'the head: a number is malformed'} end
if tonumber(h[1] or '0') ~= expected then return {'moved'} end
local waits, paused = h[5] and busy == '1', prefix .. 'paused' -- only its deadlines need attention until it is readmitted
if waits and not is(paused, 'zset') then return {'corrupt', 'those released as paused are no sorted set'} end
local plain = standing(packed)
if not plain then return {'corrupt', 'arguments: the index entries'} end
local shown = h[4] and {plain[1], 'quarantined', plain[3], plain[4], plain[5], plain[6]} or plain
local old = standing(h[2] or '') -- nil if it is unreadable: pruning removes what is left of it
local ok, opened = pcall(cmsgpack.unpack, ARGV[7] or '')
if not ok or type(opened) ~= 'table' or not suspensions(opened) then return {'corrupt', 'arguments: the suspensions'} end
local gone, what = changes(prefix, conversation, old, shown)
if not gone then return {'corrupt', what} end
local come
come, what = changes(prefix, conversation, nil, shown, opened)
if not come then return {'corrupt', what} end
come = what

-- All is checked: write, even entries that should exist already.
redis.call('HSET', head, 'index', h[4] and cmsgpack.pack(shown) or packed, 'busy', busy, 'due', due)
change(gone, come)
if waits then redis.call('ZADD', paused, 0, h[5] .. '|' .. conversation) end
if h[4] then
  redis.call('HSET', head, 'plain_index', packed)
  redis.call('ZREM', attention, conversation)
else
  attend(attention, conversation, waits and '0' or busy, tonumber(h[3] or clock()), due, h[6])
end
return {'ok'}
