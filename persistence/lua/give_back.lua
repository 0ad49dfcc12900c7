-- Make a conversation without an owner need attention now, and publish its id: a worker has dropped its work from the queue without
-- a claim, or without knowing of one. A conversation released as paused waits for the end of the pause.
--
-- KEYS  runs (hash: see claim.lua)   head (hash)   attention (sorted set)
-- ARGV  1 effect id   2 incarnation   3 conversation id   4 channel
-- Returns {'ok'} | {'owned'} | {'corrupt', what}

if ARGV[1] == '' or ARGV[2] == '' or ARGV[3] == '' then return {'corrupt', 'arguments'} end
local run = redis.call('HGET', runs, ARGV[1])
if run ~= 'R' and claim_of(run) ~= ARGV[2] then return {'ok'} end
local h = redis.call('HMGET', head, 'token', 'quarantine', 'paused')
if h[1] then return {'owned'} end
if not h[2] and not h[3] then
  look_now(attention, ARGV[3], ARGV[4])
end
return {'ok'}
