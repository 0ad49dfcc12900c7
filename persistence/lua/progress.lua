-- Keep the last progress of a claimed run; that of settled runs is removed.
--
-- KEYS  runs (hash: see claim.lua)   progress (hash: effect id -> message)
-- ARGV  1 effect id   2 message   3 for how many ms it is kept
-- Returns {'ok'} | {'no'} | {'corrupt', what}

if ARGV[1] == '' or not integer(ARGV[3]) then return {'corrupt', 'arguments'} end
local run = redis.call('HGET', runs, ARGV[1])
if not claim_of(run) then return {'no'} end
redis.call('HSET', progress, ARGV[1], ARGV[2])
redis.call('PEXPIRE', progress, ARGV[3])
for _, effect in ipairs(redis.call('HKEYS', progress)) do
  if not redis.call('HGET', runs, effect) then redis.call('HDEL', progress, effect) end
end
return {'ok'}
