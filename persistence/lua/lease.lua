-- Lease the first envelopes of queues that are due in one lane of a bucket, so that one courier delivers them (see `_prelude.lua`).
--
-- KEYS  owed (sorted set: lanes by their earliest try)
-- ARGV  1 bucket prefix   2 lane   3 how many at most   4 for how many ms   5 a nonce: only whoever knows it acknowledges
-- Returns {'ok', now, conversation, target, envelope, tries with this one, ...} | {'corrupt', what}
-- A queue without envelopes is forgotten, and an envelope that cannot be read is set aside: neither stops another one.

local prefix, lane = ARGV[1], ARGV[2]
local most, lease_ms, nonce = integer(ARGV[3]), integer(ARGV[4]), ARGV[5]
if not most or not lease_ms or not string.match(nonce, '^%w+$') then return {'corrupt', 'arguments'} end
local queues, aside = prefix .. 'owed:' .. lane, prefix .. 'aside:' .. lane
if not is(queues, 'zset') or not is(prefix .. 'owing:' .. lane, 'zset') or not is(aside, 'zset') or not is(prefix .. 'aside', 'hash') then
  return {'corrupt', 'the outbox: a key has another type'}
end

local now = clock()
local answer = {'ok', now}
for _, member in ipairs(redis.call('ZRANGEBYSCORE', queues, '-inf', now, 'LIMIT', 0, most)) do
  local conversation, target = string.match(member, '^([^|]+)|(.+)$')
  if not conversation or lane_of(target) ~= lane or ill_typed(prefix, conversation, target) then
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
look_at_lane(prefix, lane)
return answer
