-- Note why a conversation cannot be taken up.
--
-- KEYS  troubles (hash: conversation id -> 'since|last|reason', both in ms)
-- ARGV  1 conversation id   2 reason   3 the most troubles kept   4 ms after which a trouble not met again is forgotten
-- Returns {'ok', ms since the first time} | {'corrupt', what}
-- If there is no room, the trouble counts as long-standing: so many troubles have a common cause.

local most, stale_ms = integer(ARGV[3]), integer(ARGV[4])
if not most or not stale_ms or ARGV[1] == '' then return {'corrupt', 'arguments'} end
local now = clock()

-- When a trouble began and was last met; nil if the record is old or malformed.
local function times(record)
  local since, last = string.match(record or '', '^(%d+)|(%d+)|')
  if not last or tonumber(last) <= now - stale_ms then return nil end
  return tonumber(since), tonumber(last)
end

local since = times(redis.call('HGET', troubles, ARGV[1]))
if not since then
  if redis.call('HLEN', troubles) >= most then
    local all = redis.call('HGETALL', troubles)
    for i = 1, #all, 2 do
      if not times(all[i + 1]) then redis.call('HDEL', troubles, all[i]) end
    end
    if redis.call('HLEN', troubles) >= most then return {'ok', stale_ms} end
  end
  since = now
end
redis.call('HSET', troubles, ARGV[1], string.format('%d|%d|', since, now) .. ARGV[2])
return {'ok', math.max(now - since, 0)}
