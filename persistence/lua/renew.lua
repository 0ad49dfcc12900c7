-- Renew the lease of the current owner, even late.
--
-- KEYS  1 head (hash)   2 attention (sorted set)
-- ARGV  1 token   2 lease in ms   3 conversation id
-- Returns {'ok', now} | {'fenced'} | {'corrupt', what}

local lease_ms = integer(ARGV[2])
if not lease_ms or ARGV[1] == '' then return {'corrupt', 'arguments'} end
if not is(KEYS[1], 'hash') then return {'corrupt', 'the head is no hash'} end
if not is(KEYS[2], 'zset') then return {'corrupt', 'the attention index is no sorted set'} end
local h = redis.call('HMGET', KEYS[1], 'token', 'busy', 'due')
if h[1] ~= ARGV[1] then return {'fenced'} end
if h[3] ~= '' and bad(h[3]) then return {'corrupt', 'the head: a number is none'} end
local now = clock()
local lease = now + lease_ms
redis.call('HSET', KEYS[1], 'lease', string.format('%d', lease))
attend(KEYS[2], ARGV[3], h[2], lease, h[3])
return {'ok', now}
