-- Keep the last progress that the body of a claimed run reported; that of runs which are settled goes.
--
-- KEYS  1 runs (hash: see claim.lua)   2 progress (hash: effect id -> message)
-- ARGV  1 effect id   2 message   3 for how many ms it is kept
-- Returns {'ok'} | {'no'} | {'corrupt', what}

if ARGV[1] == '' or not integer(ARGV[3]) then return {'corrupt', 'arguments'} end
if not is(KEYS[1], 'hash') then return {'corrupt', 'the runs are no hash'} end
if not is(KEYS[2], 'hash') then return {'corrupt', 'the progress is no hash'} end
local run = redis.call('HGET', KEYS[1], ARGV[1])
if not claim_of(run) then return {'no'} end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
for _, effect in ipairs(redis.call('HKEYS', KEYS[2])) do
  if not redis.call('HGET', KEYS[1], effect) then redis.call('HDEL', KEYS[2], effect) end
end
return {'ok'}
