-- Move a record from claimed to done, right after the work; a conversation without an owner then needs attention, and its id is
-- published. An outcome of settled work may be kept beside the log, as late.
--
-- KEYS  runs (hash: see claim.lua)   late (hash: effect id -> 'ms|incarnation|outcome')   log (stream)   head (hash)
--       attention (sorted set)   abandoned (hash: see append.lua)
-- ARGV  1 effect id   2 incarnation   3 outcome   4 1 if a late outcome is kept, else 0   5 conversation id   6 channel
-- Returns {'ok'} | {'late'} | {'no'} | {'corrupt', what}

local conversation = ARGV[5]
if ARGV[1] == '' or ARGV[2] == '' or string.find(ARGV[2], '|', 1, true) or conversation == '' then return {'corrupt', 'arguments'} end
local run = redis.call('HGET', runs, ARGV[1])
local done = 'D|' .. ARGV[2] .. '|'
if run and string.sub(run, 1, #done) == done then return {'ok'} end
local waited_for = claim_of(run) == ARGV[2]
if not waited_for and (run or ARGV[4] ~= '1' or redis.call('EXISTS', log) == 0) then return {'no'} end
local h = redis.call('HMGET', head, 'token', 'quarantine')
if waited_for then
  redis.call('HSET', runs, ARGV[1], done .. ARGV[3])
else
  redis.call('HSET', late, ARGV[1], string.format('%d|', clock()) .. ARGV[2] .. '|' .. ARGV[3])
  redis.call('HDEL', abandoned, ARGV[1])
end
if waited_for and not h[1] and not h[2] then
  look_now(attention, conversation, ARGV[6])
end
return {waited_for and 'ok' or 'late'}
