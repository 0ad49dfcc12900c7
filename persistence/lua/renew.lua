-- Renew the lease of the current owner, even late.
--
-- KEYS  head (hash)   attention (sorted set)
-- ARGV  1 token   2 lease in ms   3 conversation id
-- Returns {'ok', now} | {'fenced'} | {'corrupt', what}

local lease_ms = integer(ARGV[2])
if not lease_ms or ARGV[1] == '' then return {'corrupt', 'arguments'} end
local h = redis.call('HMGET', head, 'token', 'busy', 'due', 'leaves')
if h[1] ~= ARGV[1] then return {'fenced'} end
if h[3] ~= '' and bad(h[3]) then return {'corrupt', 'the head: a number is malformed'} end
local now = clock()
local lease = now + lease_ms
redis.call('HSET', head, 'lease', string.format('%d', lease))
attend(attention, ARGV[3], h[2], lease, h[3], h[4])
return {'ok', now}
