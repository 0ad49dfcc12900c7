-- Lift a pause.
--
-- KEYS  1 pauses (hash)
-- ARGV  1 whose: '' for the namespace, or the agent's name
-- Returns {'ok', record} | {'no'} | {'corrupt', what}

if not is(KEYS[1], 'hash') then return {'corrupt', 'the pauses are no hash'} end
local stands = redis.call('HGET', KEYS[1], ARGV[1])
if not stands then return {'no'} end
redis.call('HDEL', KEYS[1], ARGV[1])
return {'ok', stands}
