-- Have an envelope delivered now: one that was set aside is in its queue again, one that waits for its next try is due.
--
-- KEYS  owed (sorted set: lanes by their earliest try)
-- ARGV  1 bucket prefix   2 conversation id   3 target   4 envelope   5 the channel of the courier   6 '1' to drop it instead
-- Returns {'ok'} | {'missing'} | {'corrupt', what}

local prefix, conversation, target, envelope, drop = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[6] == '1'
local ill = ill_typed(prefix, conversation, target)
if ill then return {'corrupt', 'the outbox: ' .. ill .. ' has another type'} end
local queue, lane = queue_of(prefix, conversation, target), lane_of(target)
local tries, first = prefix .. 'c:' .. conversation .. ':owed', redis.call('ZRANGE', queue, 0, 0)[1]
local due = tonumber(redis.call('ZSCORE', prefix .. 'owed:' .. lane, conversation .. '|' .. target) or '0')
local aside, member, now = prefix .. 'aside:' .. lane, conversation .. '|' .. target .. '|' .. envelope, clock()
local was_aside = redis.call('ZSCORE', aside, member)
local owed = redis.call('ZSCORE', queue, envelope)
if not was_aside and not owed then return {'missing'} end
-- What is being delivered keeps its lease, also if it is dropped: the next one does not overtake it.
local is_leased = due > now and string.match(redis.call('HGET', tries, target) or '', '^%w')

if was_aside then
  redis.call('ZREM', aside, member)
  redis.call('HDEL', prefix .. 'aside', member)
  if not drop then put(queue, envelope) end
elseif drop then
  redis.call('ZREM', queue, envelope)
  if first == envelope and not is_leased then redis.call('HDEL', tries, target, target .. '|why') end
end
if is_leased and redis.call('EXISTS', queue) == 1 then look_at_lane(prefix, lane)
else try_at(prefix, conversation, target, now) end
if not drop then redis.pcall('PUBLISH', ARGV[5], '') end
return {'ok'}
