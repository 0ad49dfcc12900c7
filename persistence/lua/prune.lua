-- Remove stale members from an index.
--
-- KEYS  index (sorted set)
-- ARGV  1 bucket prefix   2 attention|conversations|pending   then members; in a pending index, each followed by the seq of a
--       state that lacks this open suspension
-- Returns {'ok', removed, moved} | {'corrupt', what}; moved are members whose conversation's log has gone on.
-- Heads share the slot; their keys are made from the bucket's prefix.

local prefix, kind = ARGV[1], ARGV[2]
if kind ~= 'attention' and kind ~= 'conversations' and kind ~= 'pending' then return {'corrupt', 'arguments'} end
if kind == 'pending' and #ARGV % 2 ~= 0 then return {'corrupt', 'arguments'} end

local function head_of(conversation)
  local head = prefix .. 'c:' .. conversation .. ':head'
  if redis.call('TYPE', head).ok == 'hash' then return head end
  return nil
end

local function awaited(conversation)
  local head = head_of(conversation)
  if not head then return false end
  local h = redis.call('HMGET', head, 'busy', 'due', 'quarantine', 'leaves')
  return not h[3] and (h[1] == '1' or (h[2] and h[2] ~= '') or h[4])
end

local function listed_here(member)
  local conversation = string.match(member, '^%d+|([^|]+)$')
  local head = conversation and head_of(conversation)
  if not head then return false end
  local idx = standing(redis.call('HGET', head, 'index') or '')
  return idx and listed(prefix, conversation, idx)[index] == member
end

-- Whether a conversation's log has gone on since the state that lacks the member.
local function moved_on(member, seq)
  local conversation = string.match(member, '^[^|]+|[^|]*|([^|]+)') -- in every pending index the third part
  local head = conversation and head_of(conversation)
  return head and (redis.call('HGET', head, 'seq') or '0') ~= seq
end

local removed, moved = 0, 0
local step = kind == 'pending' and 2 or 1
for i = 3, #ARGV, step do
  local member, stays = ARGV[i], nil
  if kind == 'pending' then
    stays = moved_on(member, ARGV[i + 1])
    if stays then moved = moved + 1 end
  elseif kind == 'attention' then
    stays = awaited(member)
  else
    stays = listed_here(member)
  end
  if not stays then removed = removed + redis.call('ZREM', index, member) end
end
return {'ok', removed, moved}
