-- Take actors that are on offer, the lowest `since` first; one whose `since` is yet to come only if `kept` is '1'.
--
-- KEYS  standby (sorted set: actor by since)
-- ARGV  1 how many at most   2 kept
-- Returns {'ok', an actor, ...} | {'corrupt', what}

local most = integer(ARGV[1])
if not most then return {'corrupt', 'arguments'} end
local until_ms = ARGV[2] == '1' and '+inf' or string.format('%d', clock())
local taken = redis.call('ZRANGEBYSCORE', standby, '-inf', until_ms, 'LIMIT', 0, most)
for _, actor in ipairs(taken) do redis.call('ZREM', standby, actor) end
return {'ok', unpack(taken)}
