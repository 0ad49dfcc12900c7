-- Take back a claim of work that has not begun: its record is runnable again.
--
-- KEYS  1 runs (see claim.lua)
-- ARGV  1 effect id   2 incarnation
-- Returns {'ok'} | {'no'} | {'corrupt', what}

if not is(KEYS[1], 'hash') then return {'corrupt', 'the runs are no hash'} end
if claim_of(redis.call('HGET', KEYS[1], ARGV[1])) ~= ARGV[2] then return {'no'} end
redis.call('HSET', KEYS[1], ARGV[1], 'R')
return {'ok'}
