-- Count an actor among those that live, if there is room for it, or note that it was heard of; it counts until it is deregistered.
--
-- KEYS  1 living actors (sorted set by when they were last heard of)
-- ARGV  1 actor   2 limit
-- Returns {'ok'} | {'full', how many live} | {'corrupt', what}

local limit = integer(ARGV[2])
if not limit or ARGV[1] == '' then return {'corrupt', 'arguments'} end
if not is(KEYS[1], 'zset') then return {'corrupt', 'the living actors are no sorted set'} end
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  local living = redis.call('ZCARD', KEYS[1])
  if living >= limit then return {'full', living} end
end
redis.call('ZADD', KEYS[1], string.format('%d', clock()), ARGV[1])
return {'ok'}
