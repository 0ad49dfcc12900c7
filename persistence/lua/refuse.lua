-- Move a record from runnable to done without the work, which the rules in force forbid. A conversation without an owner then needs
-- attention, and its id is published.
--
-- KEYS  runs (hash: see claim.lua)   head (hash)   attention (sorted set)
-- ARGV  1 effect id   2 incarnation   3 outcome   4 conversation id   5 channel
-- Returns {'ok'} | {'no'} | {'corrupt', what}

if ARGV[1] == '' or ARGV[2] == '' or string.find(ARGV[2], '|', 1, true) or ARGV[4] == '' then return {'corrupt', 'arguments'} end
local run = redis.call('HGET', runs, ARGV[1])
local done = 'D|' .. ARGV[2] .. '|'
if run and string.sub(run, 1, #done) == done then return {'ok'} end
if run ~= 'R' then return {'no'} end
local h = redis.call('HMGET', head, 'token', 'quarantine')
redis.call('HSET', runs, ARGV[1], done .. ARGV[3])
if not h[1] and not h[2] then
  look_now(attention, ARGV[4], ARGV[5])
end
return {'ok'}
