-- Take back a claim of work that has not begun: its record is runnable again.
--
-- KEYS  runs (hash: see claim.lua)
-- ARGV  1 effect id   2 incarnation
-- Returns {'ok'} | {'no'} | {'corrupt', what}

if claim_of(redis.call('HGET', runs, ARGV[1])) ~= ARGV[2] then return {'no'} end
redis.call('HSET', runs, ARGV[1], 'R')
return {'ok'}
