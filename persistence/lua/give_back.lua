-- Have a conversation without an owner looked at now, and publish its id: a worker that had a piece of its work in its line has
-- ended that without a claim, or without knowing of it. One that was released as paused waits for the end of the pause.
--
-- KEYS  1 runs (hash: see claim.lua)   2 head (hash)   3 attention (sorted set)
-- ARGV  1 effect id   2 incarnation   3 conversation id   4 channel
-- Returns {'ok'} | {'owned'} | {'corrupt', what}

if ARGV[1] == '' or ARGV[2] == '' or ARGV[3] == '' then return {'corrupt', 'arguments'} end
if not is(KEYS[1], 'hash') then return {'corrupt', 'the runs are no hash'} end
if not is(KEYS[2], 'hash') then return {'corrupt', 'the head is no hash'} end
if not is(KEYS[3], 'zset') then return {'corrupt', 'the attention index is no sorted set'} end
local run = redis.call('HGET', KEYS[1], ARGV[1])
if run ~= 'R' and claim_of(run) ~= ARGV[2] then return {'ok'} end
local h = redis.call('HMGET', KEYS[2], 'token', 'quarantine', 'paused')
if h[1] then return {'owned'} end
if not h[2] and not h[3] then
  local at = tonumber(redis.call('ZSCORE', KEYS[3], ARGV[3]) or 'inf')
  redis.call('ZADD', KEYS[3], string.format('%d', math.min(at, clock())), ARGV[3])
  redis.call('PUBLISH', ARGV[4], ARGV[3])
end
return {'ok'}
