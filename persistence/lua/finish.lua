-- Move a record from claimed to done, right after the work; a conversation without an owner then needs attention, and its id is
-- published. An outcome of settled work may be kept beside the log, as late.
--
-- KEYS  runs (hash: see claim.lua)   late (hash: effect id -> 'ms|incarnation|outcome')   log (stream)   head (hash)
--       attention (sorted set)   abandoned (hash: see append.lua)
-- ARGV  1 effect id   2 incarnation   3 outcome   4 1 if a late outcome is kept, else 0   5 conversation id   6 channel
--       of a guest, which judges the outcome itself if there is no owner: 7 after how many ms the conversation needs attention
--       8 the record version that the caller reads   9 whether the caller has a cipher, 0|1
-- Returns {'ok'} | {'visit', now, seq, snapshot, append id, entries} | {'late'} | {'no'} | {'corrupt', what}

local conversation, look_ms = ARGV[5], integer(ARGV[7])
if ARGV[1] == '' or ARGV[2] == '' or string.find(ARGV[2], '|', 1, true) or conversation == '' then return {'corrupt', 'arguments'} end
if ARGV[7] and not (look_ms and integer(ARGV[8])) then return {'corrupt', 'arguments'} end
local run = redis.call('HGET', runs, ARGV[1])
local done = 'D|' .. ARGV[2] .. '|'
local was_done = run and string.sub(run, 1, #done) == done
if not was_done and claim_of(run) ~= ARGV[2] then
  if run then return {'no'} end
  local keeps = ARGV[4] == '1' and redis.call('EXISTS', log) == 1
  if keeps then redis.call('HSET', late, ARGV[1], string.format('%d|', clock()) .. ARGV[2] .. '|' .. ARGV[3]) end
  redis.call('HDEL', abandoned, ARGV[1]) -- its body has ended
  return {keeps and 'late' or 'no'}
end
if not was_done then redis.call('HSET', runs, ARGV[1], done .. ARGV[3]) end
local h = redis.call('HMGET', head, 'token', 'quarantine')
if h[1] or h[2] then return {'ok'} end
local visit = look_ms and visited(head, log, runs, tonumber(ARGV[8]), ARGV[9] == '1')
if visit then
  local at = math.min(visit[2] + look_ms, tonumber(redis.call('ZSCORE', attention, conversation) or 'inf'))
  redis.call('ZADD', attention, string.format('%d', at), conversation)
  return visit
end
look_now(attention, conversation, ARGV[6])
return {'ok'}
