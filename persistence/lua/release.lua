-- Give a conversation up, if the token still owns it.
--
-- KEYS  head (hash)   attention (sorted set)   log (stream)
--       copy (unchecked stream: the log while it is copied, else absent)   paused (sorted set by name: 'agent|conversation')
--       runs (hash: see claim.lua)
-- ARGV  1 token   2 conversation id   3 1 if its work is paused, so that only its deadlines need attention, else 0
--       4 after how many ms it needs attention if its work goes on; at once if an outcome is recorded: then its id is published
--       5 channel
-- Returns {'ok'} | {'fenced'} | {'corrupt', what}

local look_ms = integer(ARGV[4])
if not look_ms or ARGV[1] == '' or (ARGV[3] ~= '0' and ARGV[3] ~= '1') then return {'corrupt', 'arguments'} end
local h = redis.call('HMGET', head, 'token', 'busy', 'due', 'seq', 'index', 'leaves')
if h[1] ~= ARGV[1] then return {'fenced'} end
if (h[3] ~= '' and bad(h[3])) or bad(h[4]) then return {'corrupt', 'the head: a number is malformed'} end
if (h[4] or '0') == '0' then
  redis.call('DEL', head)
  redis.call('ZREM', attention, ARGV[2])
  return {'ok'}
end
redis.call('HDEL', head, 'token', 'holder', 'lease')
local stands = ARGV[3] == '1' and h[2] == '1' and standing(h[5] or '')
if stands then
  redis.call('HSET', head, 'paused', stands[1])
  redis.call('ZADD', paused, 0, stands[1] .. '|' .. ARGV[2])
end
local looked_at, done = clock(), false
if h[2] == '1' and not stands then
  for _, record in ipairs(redis.call('HVALS', runs)) do done = done or string.sub(record, 1, 1) == 'D' end
  if not done then looked_at = looked_at + look_ms end
end
attend(attention, ARGV[2], stands and '0' or h[2], looked_at, h[3], h[6])
if done then redis.call('PUBLISH', ARGV[5], ARGV[2]) end
shrink(log, copy)
return {'ok'}
