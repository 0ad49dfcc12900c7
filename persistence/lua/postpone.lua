-- Have an overdue conversation looked at again after a delay; one that needs no attention any more leaves the index.
--
-- KEYS  head (unchecked hash)   attention (sorted set)
-- ARGV  1 conversation id   2 delay in ms
-- Returns {'ok'} | {'corrupt', what}
-- The head's type is unchecked: even with a broken head, the entry must not stay before others for ever.

local delay_ms = integer(ARGV[2])
if not delay_ms or ARGV[1] == '' then return {'corrupt', 'arguments'} end
local at = tonumber(redis.call('ZSCORE', attention, ARGV[1]) or 'nan')
if not at or at ~= at then return {'ok'} end
local gone = redis.call('EXISTS', head) == 0 or (is(head, 'hash') and redis.call('HEXISTS', head, 'quarantine') == 1)
local now = clock()
if gone then
  redis.call('ZREM', attention, ARGV[1])
elseif at <= now then -- else a write has set another time meanwhile
  redis.call('ZADD', attention, string.format('%d', now + delay_ms), ARGV[1])
end
return {'ok'}
