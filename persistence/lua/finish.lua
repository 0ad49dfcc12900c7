-- Move a run from claimed to done, right after its body. An outcome that nobody waits for any more is kept beside the log, as late.
--
-- KEYS  1 runs (hash: see claim.lua)   2 late outcomes (hash: effect id -> 'ms|incarnation|outcome')   3 log (stream)
-- ARGV  1 effect id   2 incarnation   3 outcome
-- Returns {'ok'} | {'late'} | {'no'} | {'corrupt', what}

if ARGV[1] == '' or ARGV[2] == '' or string.find(ARGV[2], '|', 1, true) then return {'corrupt', 'arguments'} end
if not is(KEYS[1], 'hash') then return {'corrupt', 'the runs are no hash'} end
if not is(KEYS[2], 'hash') then return {'corrupt', 'the late outcomes are no hash'} end
if not is(KEYS[3], 'stream') then return {'corrupt', 'the log is no stream'} end
local run = redis.call('HGET', KEYS[1], ARGV[1])
local done = 'D|' .. ARGV[2] .. '|'
if run and string.sub(run, 1, #done) == done then return {'ok'} end
local claimed = 'C|' .. ARGV[2] .. '|'
local waited_for = run and string.sub(run, 1, #claimed) == claimed
if not waited_for and (run or redis.call('EXISTS', KEYS[3]) == 0) then return {'no'} end
if waited_for then
  redis.call('HSET', KEYS[1], ARGV[1], done .. ARGV[3])
else
  redis.call('HSET', KEYS[2], ARGV[1], string.format('%d|', clock()) .. ARGV[2] .. '|' .. ARGV[3])
end
return {waited_for and 'ok' or 'late'}
