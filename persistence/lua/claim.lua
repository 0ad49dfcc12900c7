-- Move a record from runnable to claimed, just before the work begins; not after a moment by which that was allowed.
--
-- KEYS  1 runs (hash: effect id -> 'R' | 'C|incarnation|worker' | 'C|incarnation|worker|until' | 'D|incarnation|outcome')
-- ARGV  1 effect id   2 incarnation   3 worker   4 the last moment in ms, or ''   5 how long the claim may stand in ms, 0 for ever
--       6 the incarnation of a claim that gives way, or ''
-- Returns {'ok'} | {'no'} | {'corrupt', what}

local bound_ms = integer(ARGV[5])
if ARGV[1] == '' or ARGV[2] == '' or string.find(ARGV[2], '|', 1, true) or (ARGV[4] ~= '' and not integer(ARGV[4])) then return {'corrupt', 'arguments'} end
if not bound_ms or string.find(ARGV[3], '|', 1, true) then return {'corrupt', 'arguments'} end
if not is(KEYS[1], 'hash') then return {'corrupt', 'the runs are no hash'} end
local run = redis.call('HGET', KEYS[1], ARGV[1])
local claimed = 'C|' .. ARGV[2] .. '|' .. ARGV[3]
if run == claimed or (run and string.sub(run, 1, #claimed + 1) == claimed .. '|') then return {'ok'} end
local given_up = 'C|' .. ARGV[6] .. '|'
if run ~= 'R' and not (run and ARGV[6] ~= '' and string.sub(run, 1, #given_up) == given_up) then return {'no'} end
local now = clock()
if ARGV[4] ~= '' and now > tonumber(ARGV[4]) then return {'no'} end
if bound_ms > 0 then claimed = claimed .. string.format('|%d', now + bound_ms) end
redis.call('HSET', KEYS[1], ARGV[1], claimed)
return {'ok'}
