-- Move a run from claimed to done, right after its body.
--
-- KEYS  1 runs (hash: see claim.lua)
-- ARGV  1 effect id   2 incarnation   3 outcome
-- Returns {'ok'} | {'no'} | {'corrupt', what}

if ARGV[1] == '' or ARGV[2] == '' or string.find(ARGV[2], '|', 1, true) then return {'corrupt', 'arguments'} end
if not is(KEYS[1], 'hash') then return {'corrupt', 'the runs are no hash'} end
local run = redis.call('HGET', KEYS[1], ARGV[1])
if not run then return {'no'} end
local done = 'D|' .. ARGV[2] .. '|'
if string.sub(run, 1, #done) == done then return {'ok'} end
local claimed = 'C|' .. ARGV[2] .. '|'
if string.sub(run, 1, #claimed) ~= claimed then return {'no'} end
redis.call('HSET', KEYS[1], ARGV[1], done .. ARGV[3])
return {'ok'}
