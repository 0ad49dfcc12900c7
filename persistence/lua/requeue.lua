-- Have a queue of the outbox in its lane again, where another writer has removed it (see `_prelude.lua`).
--
-- KEYS  owed (sorted set: lanes by their earliest try)
-- ARGV  1 bucket prefix   2 conversation id   3 target
-- Returns {'ok'} | {'corrupt', what}

local prefix, conversation, target = ARGV[1], ARGV[2], ARGV[3]
local ill = ill_typed(prefix, conversation, target)
if ill then return {'corrupt', 'the outbox: ' .. ill .. ' has another type'} end
local due = redis.call('ZSCORE', prefix .. 'owed:' .. lane_of(target), conversation .. '|' .. target)
try_at(prefix, conversation, target, due and tonumber(due) or clock())
return {'ok'}
