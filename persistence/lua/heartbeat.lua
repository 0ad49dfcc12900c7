-- Register an actor as live, if there is room, or renew its heartbeat; it counts until it is deregistered.
--
-- KEYS  living (sorted set by the last heartbeat)
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
