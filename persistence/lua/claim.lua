-- Move a run from runnable to claimed, just before its body; not after a moment by which that was allowed.
--
-- KEYS  1 runs (hash: effect id -> 'R' | 'C|incarnation|worker' | 'D|incarnation|outcome')
-- ARGV  1 effect id   2 incarnation   3 worker   4 the last moment in ms, or ''
-- Returns {'ok'} | {'no'} | {'corrupt', what}

if ARGV[1] == '' or ARGV[2] == '' or string.find(ARGV[2], '|', 1, true) or (ARGV[4] ~= '' and not integer(ARGV[4])) then return {'corrupt', 'arguments'} end
if not is(KEYS[1], 'hash') then return {'corrupt', 'the runs are no hash'} end
local run = redis.call('HGET', KEYS[1], ARGV[1])
local claimed = 'C|' .. ARGV[2] .. '|' .. ARGV[3]
if run == claimed then return {'ok'} end
if run ~= 'R' then return {'no'} end
if ARGV[4] ~= '' and clock() > tonumber(ARGV[4]) then return {'no'} end
redis.call('HSET', KEYS[1], ARGV[1], claimed)
return {'ok'}
