-- Renew the presence of a client whose end cancels what waits for it.
--
-- KEYS  head (hash)   here (sorted set by time: see `_prelude.lua`)   attention (sorted set)
-- ARGV  1 conversation id   2 client   3 for how many ms it is present   4 after how many ms without it its departure has to be judged
-- Returns {'ok', until} | {'no'} | {'corrupt', what}

local gone_ms, after_ms = integer(ARGV[3]), integer(ARGV[4])
if not (gone_ms and after_ms) or ARGV[1] == '' then return {'corrupt', 'arguments'} end
local ends = clock() + gone_ms
if not redis.call('ZSCORE', here, 'ca' .. ARGV[2]) then return {'no'} end
redis.call('ZADD', here, string.format('%d', ends), 'ca' .. ARGV[2])
note_leaves(head, here, attention, ARGV[1], after_ms)
return {'ok', ends}
