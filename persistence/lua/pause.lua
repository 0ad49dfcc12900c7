-- Pause the new work of the namespace, or of one agent.
--
-- KEYS  pauses (hash: '' for the namespace, or the agent's name -> 'since|by|reason', since in ms)
-- ARGV  1 whose   2 by, without '|'   3 reason   4 the most pauses; only the namespace's own may exceed this
-- Returns {'ok', 1 if it stood before, else 0, record} | {'full'} | {'corrupt', what}

local most = integer(ARGV[4])
if not most or string.find(ARGV[2], '|', 1, true) then return {'corrupt', 'arguments'} end
local stands = redis.call('HGET', pauses, ARGV[1])
if stands then return {'ok', 1, stands} end
if ARGV[1] ~= '' and redis.call('HLEN', pauses) >= most then return {'full'} end
local record = string.format('%d|', clock()) .. ARGV[2] .. '|' .. ARGV[3]
redis.call('HSET', pauses, ARGV[1], record)
return {'ok', 0, record}
