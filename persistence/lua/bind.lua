-- Bind the store to one Ray cluster at a time.
--
-- KEYS  1 binding (hash)
-- ARGV  1 cluster   2 address   3 ms after which another cluster's binding is stale   4 force 0|1
-- Returns {'ok'} | {'bound', cluster, address, age in ms} | {'corrupt', what}

local stale_ms = integer(ARGV[3])
if not stale_ms or ARGV[1] == '' then return {'corrupt', 'arguments'} end
if not is(KEYS[1], 'hash') then return {'corrupt', 'the binding is no hash'} end
local now = clock()
local b = redis.call('HMGET', KEYS[1], 'cluster', 'address', 'at')
if b[1] and (not integer(b[3]) or not b[2]) then return {'corrupt', 'the binding'} end
if b[1] and b[1] ~= ARGV[1] and ARGV[4] ~= '1' and now - tonumber(b[3]) < stale_ms then
  return {'bound', b[1], b[2], now - tonumber(b[3])}
end
redis.call('HSET', KEYS[1], 'cluster', ARGV[1], 'address', ARGV[2], 'at', string.format('%d', now))
return {'ok'}
