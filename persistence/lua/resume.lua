-- Lift a pause, if it is still the one that was read; run again, it lifts no other.
--
-- KEYS  1 pauses (hash)
-- ARGV  1 whose: '' for the namespace, or the agent's name   2 its record, as it was read
-- Returns {'ok'} | {'no'} | {'corrupt', what}

if not is(KEYS[1], 'hash') then return {'corrupt', 'the pauses are no hash'} end
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return {'no'} end
redis.call('HDEL', KEYS[1], ARGV[1])
return {'ok'}
