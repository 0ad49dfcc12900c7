-- Lift a pause if it is still the one that was read; so a repetition lifts no other.
--
-- KEYS  pauses (hash)
-- ARGV  1 whose: '' for the namespace, or the agent's name   2 its record, as it was read
-- Returns {'ok'} | {'no'} | {'corrupt', what}

if redis.call('HGET', pauses, ARGV[1]) ~= ARGV[2] then return {'no'} end
redis.call('HDEL', pauses, ARGV[1])
return {'ok'}
