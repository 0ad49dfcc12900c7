-- Give a conversation up, if the token still owns it.
--
-- KEYS  1 head (hash)   2 attention (sorted set)
-- ARGV  1 token   2 conversation id
-- Returns {'ok'} | {'fenced'} | {'corrupt', what}

if ARGV[1] == '' then return {'corrupt', 'arguments'} end
if not is(KEYS[1], 'hash') then return {'corrupt', 'the head is no hash'} end
if not is(KEYS[2], 'zset') then return {'corrupt', 'the attention index is no sorted set'} end
local h = redis.call('HMGET', KEYS[1], 'token', 'busy', 'due', 'seq')
if h[1] ~= ARGV[1] then return {'fenced'} end
if (h[3] ~= '' and bad(h[3])) or bad(h[4]) then return {'corrupt', 'the head: a number is none'} end
if (h[4] or '0') == '0' then
  redis.call('DEL', KEYS[1])
  redis.call('ZREM', KEYS[2], ARGV[2])
  return {'ok'}
end
redis.call('HDEL', KEYS[1], 'token', 'holder', 'lease')
attend(KEYS[2], ARGV[2], h[2], clock(), h[3])
return {'ok'}
