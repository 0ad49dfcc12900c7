-- Count an actor among those that live, if there is room for it; what has not been heard of for long counts no more.
--
-- KEYS  1 living actors (sorted set by when they were last heard of)
-- ARGV  1 actor   2 limit   3 ms after which an actor that is not heard of counts no more
-- Returns {'ok'} | {'full', how many live} | {'corrupt', what}

local limit, stale_ms = integer(ARGV[2]), integer(ARGV[3])
if not limit or not stale_ms or ARGV[1] == '' then return {'corrupt', 'arguments'} end
if not is(KEYS[1], 'zset') then return {'corrupt', 'the living actors are no sorted set'} end
local now = clock()
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  local living = redis.call('ZCOUNT', KEYS[1], string.format('(%d', now - stale_ms), '+inf')
  if living >= limit then return {'full', living} end
end
redis.call('ZADD', KEYS[1], string.format('%d', now), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%d', now - stale_ms))
return {'ok'}
