-- Lease the first envelopes of queues that are due in one lane of a bucket, so that one courier delivers them (see `_prelude.lua`).
--
-- KEYS  owed (sorted set: lanes by their earliest try)
-- ARGV  1 bucket prefix   2 lane   3 how many at most   4 for how many ms   5 a nonce: only whoever knows it acknowledges
--       6 for how many ms what was set aside is kept   7 how many of these are kept at most
-- Returns {'ok', how many were dropped, conversation, target, envelope, tries with this one, ...} | {'corrupt', what}
-- A queue without envelopes is forgotten, what is of no conversation is dropped, and an envelope that cannot be read is set aside: none
-- of them stops another one.

local prefix, lane = ARGV[1], ARGV[2]
local most, lease_ms, nonce = integer(ARGV[3]), integer(ARGV[4]), ARGV[5]
local aside_ms, most_aside = integer(ARGV[6]), integer(ARGV[7])
if not most or not lease_ms or not aside_ms or not most_aside or not string.match(nonce, '^%w+$') then return {'corrupt', 'arguments'} end
local queues, aside = prefix .. 'owed:' .. lane, prefix .. 'aside:' .. lane
if not is(queues, 'zset') or not is(prefix .. 'owing:' .. lane, 'zset') or not is(aside, 'zset') or not is(prefix .. 'aside', 'hash') then
  return {'corrupt', 'the outbox: a key has another type'}
end

local function is_id(text) return string.match(text, '^%w[%w._:-]*$') end

local now = clock()
local answer, dropped = {'ok', 0}, 0
for _, member in ipairs(redis.call('ZRANGEBYSCORE', queues, '-inf', now, 'LIMIT', 0, most)) do
  local conversation, target = string.match(member, '^([^|]+)|(.+)$')
  local is_named = conversation and is_id(conversation) and (lane ~= 'own' or is_id(string.sub(target, 5)))
  if not is_named or lane_of(target) ~= lane or ill_typed(prefix, conversation, target) then
    dropped = dropped + 1
    redis.call('ZREM', queues, member)
    redis.call('ZREM', prefix .. 'owing:' .. lane, member)
  else
    local queue, tries = queue_of(prefix, conversation, target), prefix .. 'c:' .. conversation .. ':owed'
    local envelope = redis.call('ZRANGE', queue, 0, 0)[1]
    if envelope and not parts_of(envelope) then
      redis.call('ZREM', queue, envelope)
      redis.call('ZADD', aside, string.format('%d', now), member .. '|0|0|unreadable|' .. string.format('%d', now))
      envelope = nil
    end
    if envelope then
      local leased, tried, since, which = string.match(redis.call('HGET', tries, target) or '', '^(%w*)|(%d+)|(%d+)|(.*)$')
      if leased ~= '' and which ~= envelope then tried, since = nil, nil end -- they were of one that was dropped
      tried = (integer(tried) or 0) + 1
      redis.call('HSET', tries, target, string.format('%s|%d|%d|%s', nonce, tried, integer(since) or now, envelope))
      for _, part in ipairs({conversation, target, envelope, tried}) do answer[#answer + 1] = part end
      redis.call('ZADD', queues, string.format('%d', now + lease_ms), member)
    else
      try_at(prefix, conversation, target, now)
    end
  end
end
local old = redis.call('ZRANGEBYSCORE', aside, '-inf', now - aside_ms, 'LIMIT', 0, 1000)
local over = math.max(#old, math.min(redis.call('ZCARD', aside) - most_aside, 1000))
for _, member in ipairs(over > 0 and redis.call('ZRANGE', aside, 0, over - 1) or {}) do
  dropped = dropped + 1
  redis.call('ZREM', aside, member)
  redis.call('HDEL', prefix .. 'aside', member)
end
answer[2] = dropped
look_at_lane(prefix, lane)
return answer
