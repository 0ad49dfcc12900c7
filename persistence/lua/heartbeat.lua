-- Count an actor among those that live, if there is room for it, or note that it was heard of; it counts until it is deregistered.
--
-- KEYS  living (sorted set by when they were last heard of)
-- ARGV  1 actor   2 limit
-- Returns {'ok'} | {'full', how many live} | {'corrupt', what}

local limit = integer(ARGV[2])
if not limit or ARGV[1] == '' then return {'corrupt', 'arguments'} end
if not redis.call('ZSCORE', living, ARGV[1]) then
  local count = redis.call('ZCARD', living)
  if count >= limit then return {'full', count} end
end
redis.call('ZADD', living, string.format('%d', clock()), ARGV[1])
return {'ok'}
