-- Look at a conversation that needs attention: may it stay without an actor, since workers claim all its work?
--
-- KEYS  head (hash)   runs (hash: see claim.lua)   attention (sorted set)
-- ARGV  1 conversation id   2 after how many ms it is looked at again
-- Returns {'parked', record, ...} | {'wake'} | {'corrupt', what}
-- Parked: it has no owner, no deadline is due, no client has left, no outcome is recorded, and each claim has a bound that has not passed. It needs
-- attention again after ARGV[2], or at an earlier deadline or departure.

local look_ms = integer(ARGV[2])
if not look_ms or ARGV[1] == '' then return {'corrupt', 'arguments'} end
local h = redis.call('HMGET', head, 'token', 'busy', 'due', 'quarantine', 'paused', 'leaves')
if h[1] or h[2] ~= '1' or h[4] or h[5] or (h[3] ~= '' and bad(h[3])) then return {'wake'} end
local now = clock()
local at = now + look_ms
for _, due in ipairs({integer(h[3]) or math.huge, integer(h[6]) or math.huge}) do
  if due <= now then return {'wake'} end
  at = math.min(at, due)
end
local found = {'parked'}
for _, record in ipairs(redis.call('HVALS', runs)) do
  local _, _, bound = claim_of(record)
  if not bound or bound <= now then return {'wake'} end
  at = math.min(at, bound)
  found[#found + 1] = record
end
if #found == 1 then return {'wake'} end
redis.call('ZADD', attention, string.format('%d', at), ARGV[1])
return found
