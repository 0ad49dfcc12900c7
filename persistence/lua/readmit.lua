-- Have conversations that were released as paused need attention again.
--
-- KEYS  paused (sorted set by name: 'agent|conversation')   attention (sorted set)
-- ARGV  1 bucket prefix   then members of `paused`
-- Returns {'ok'} | {'corrupt', what}
-- Heads share the slot; their keys are made from the bucket's prefix. A conversation that was taken over is no member any more.

local now = clock()
for i = 2, #ARGV do
  local conversation = string.match(ARGV[i], '|([^|]+)$')
  local head = conversation and ARGV[1] .. 'c:' .. conversation .. ':head'
  if redis.call('ZREM', paused, ARGV[i]) == 1 and head and redis.call('TYPE', head).ok == 'hash' then
    local h = redis.call('HMGET', head, 'busy', 'due', 'quarantine', 'leaves')
    redis.call('HDEL', head, 'paused')
    if not h[3] and not (h[2] and h[2] ~= '' and bad(h[2])) then attend(attention, conversation, h[1], now, h[2], h[4]) end
  end
end
return {'ok'}
