-- Have conversations need attention again that were released as paused.
--
-- KEYS  1 those released as paused (sorted set by name: 'agent|conversation')   2 attention (sorted set)
-- ARGV  1 bucket prefix   then members of the first key
-- Returns {'ok'} | {'corrupt', what}
-- Heads share the slot; their keys are made from the bucket's prefix. What was taken over meanwhile is no member any more.

if not is(KEYS[1], 'zset') then return {'corrupt', 'those released as paused are no sorted set'} end
if not is(KEYS[2], 'zset') then return {'corrupt', 'the attention index is no sorted set'} end
local now = clock()
for i = 2, #ARGV do
  local conversation = string.match(ARGV[i], '|([^|]+)$')
  local head = conversation and ARGV[1] .. 'c:' .. conversation .. ':head'
  if redis.call('ZREM', KEYS[1], ARGV[i]) == 1 and head and redis.call('TYPE', head).ok == 'hash' then
    local h = redis.call('HMGET', head, 'busy', 'due', 'quarantine')
    redis.call('HDEL', head, 'paused')
    if not h[3] and not (h[2] and h[2] ~= '' and bad(h[2])) then attend(KEYS[2], conversation, h[1], now, h[2]) end
  end
end
return {'ok'}
