-- Move a record from runnable to claimed, just before the work begins, if the time for that is not over.
--
-- KEYS  runs (hash: effect id -> 'R' | 'C|incarnation|worker' | 'B|incarnation|until|worker' | 'D|incarnation|outcome')
--       head (hash)   log (stream)
-- ARGV  1 effect id   2 incarnation   3 worker   4 the time in ms from which on the claim is refused, or ''   5 how long the claim may last in ms, 0 for ever
--       6 the incarnation of the claim to replace, or ''   7 the epoch of grants that let the work run, '' if it needs none   8 the place in the log of an entry to return, 0 for none
-- Returns {'ok', the fields of that entry} | {'no'} | {'corrupt', what}

local bound_ms = integer(ARGV[5])
if ARGV[1] == '' or ARGV[2] == '' or string.find(ARGV[2], '|', 1, true) or (ARGV[4] ~= '' and not integer(ARGV[4])) then return {'corrupt', 'arguments'} end
if not bound_ms then return {'corrupt', 'arguments'} end
if ARGV[7] ~= '' and not integer(ARGV[7]) then return {'corrupt', 'arguments'} end
if not integer(ARGV[8]) then return {'corrupt', 'arguments'} end
local entry = {}
if ARGV[8] ~= '0' then entry = redis.call('XRANGE', log, ARGV[8] .. '-0', ARGV[8] .. '-0')[1] or {} end
local run = redis.call('HGET', runs, ARGV[1])
local by, worker = claim_of(run)
if by == ARGV[2] and worker == ARGV[3] then return {'ok', entry[2] or {}} end
if run ~= 'R' and not (by and by == ARGV[6]) then return {'no'} end
if ARGV[7] ~= '' and (redis.call('HGET', head, 'grants') or '0') ~= ARGV[7] then return {'no'} end
local now = clock()
if ARGV[4] ~= '' and now >= tonumber(ARGV[4]) then return {'no'} end
local claimed = 'C|' .. ARGV[2] .. '|' .. ARGV[3]
if bound_ms > 0 then claimed = 'B|' .. ARGV[2] .. string.format('|%d|', now + bound_ms) .. ARGV[3] end
redis.call('HSET', runs, ARGV[1], claimed)
return {'ok', entry[2] or {}}
