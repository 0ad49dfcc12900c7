-- Say what became of a leased envelope (see `_prelude.lua`): it leaves the queue if the lease still stands.
--
-- KEYS  owed (sorted set: lanes by their earliest try)
-- ARGV  1 bucket prefix   2 conversation id   3 target   4 envelope   5 the lease's nonce
--       6 delivered|later|aside   7 reason   8 of 'later': after how many ms it is tried again   9 for how many ms it is tried in all
-- Returns {'ok', 1 if it was set aside, else 0} | {'stale'} | {'late'}: it was dropped meanwhile | {'corrupt', what}
-- The time in all begins with the first try since a delivery, so that a target that is gone is not tried that long for each envelope.

local prefix, conversation, target, envelope, nonce, what = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local after_ms, longest_ms = integer(ARGV[8]), integer(ARGV[9])
if nonce == '' or (what ~= 'delivered' and what ~= 'later' and what ~= 'aside') or not after_ms or not longest_ms then
  return {'corrupt', 'arguments'}
end
local ill = ill_typed(prefix, conversation, target)
if ill then return {'corrupt', 'the outbox: ' .. ill .. ' has another type'} end
local queue, tries = queue_of(prefix, conversation, target), prefix .. 'c:' .. conversation .. ':owed'
local leased, tried, since, which = string.match(redis.call('HGET', tries, target) or '', '^(%w*)|(%d+)|(%d+)|(.*)$')
if leased ~= nonce or which ~= envelope then return {'stale'} end

local now = clock()
if not redis.call('ZSCORE', queue, envelope) then -- it was dropped meanwhile, and the next one has waited for it
  redis.call('HDEL', tries, target, target .. '|why')
  try_at(prefix, conversation, target, now)
  return {'late'}
end
local too_long = what == 'later' and now - tonumber(since) >= longest_ms
if what == 'later' and not too_long then
  redis.call('HSET', tries, target, '|' .. tried .. '|' .. since .. '|', target .. '|why', ARGV[7])
  try_at(prefix, conversation, target, now + after_ms)
  return {'ok', 0}
end
redis.call('ZREM', queue, envelope)
redis.call('HDEL', tries, target, target .. '|why')
if too_long then redis.call('HSET', tries, target, '|0|' .. since .. '|') end
if what ~= 'delivered' then
  local member = conversation .. '|' .. target .. '|' .. envelope
  redis.call('ZADD', prefix .. 'aside:' .. lane_of(target), string.format('%d', now), member)
  redis.call('HSET', prefix .. 'aside', member, ARGV[7])
end
try_at(prefix, conversation, target, now)
return {'ok', what == 'delivered' and 0 or 1}
