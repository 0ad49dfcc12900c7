-- Bind the store to one Ray cluster at a time.
--
-- KEYS  binding (hash)
-- ARGV  1 cluster   2 address   3 ms after which another cluster's binding is stale   then the clusters that are proven gone
-- Returns {'ok'} | {'bound', cluster, address, age in ms} | {'corrupt', what}
-- If the clock was set back behind the last renewal, the binding's age counts from now; a refusal writes nothing else.
-- A cluster's id ends before an '@'; in a binding of an older release, a machine's id follows.

local stale_ms = integer(ARGV[3])
if not stale_ms or ARGV[1] == '' then return {'corrupt', 'arguments'} end
local now = clock()
local b = redis.call('HMGET', binding, 'cluster', 'address', 'at')
if b[1] and (not integer(b[3]) or not b[2]) then return {'corrupt', 'the binding'} end
local function id(cluster) return string.match(cluster, '^[^@]*') end
local free = not b[1] or id(b[1]) == id(ARGV[1])
for i = 4, #ARGV do free = free or id(b[1]) == id(ARGV[i]) end
local age = tonumber(b[3] or '0') <= now and now - tonumber(b[3] or '0') or 0
if not free and age < stale_ms then
  local refusal = {'bound', b[1], b[2], age}
  if tonumber(b[3]) > now then redis.call('HSET', binding, 'at', string.format('%d', now)) end
  return refusal
end
redis.call('HSET', binding, 'cluster', ARGV[1], 'address', ARGV[2], 'at', string.format('%d', now))
return {'ok'}
