-- Remove from an index what no conversation's head accounts for.
--
-- KEYS  1 index (sorted set)
-- ARGV  1 bucket prefix   2 1 if it is the attention index, else 0   then members
-- Returns {'ok', removed} | {'corrupt', what}
-- Heads share the slot; their keys are made from the bucket's prefix.

local key, prefix = KEYS[1], ARGV[1]
if ARGV[2] ~= '0' and ARGV[2] ~= '1' then return {'corrupt', 'arguments'} end
if not is(KEYS[1], 'zset') then return {'corrupt', 'the index is no sorted set'} end

local function accounted(member)
  if ARGV[2] == '1' then
    local head = prefix .. 'c:' .. member .. ':head'
    if redis.call('TYPE', head).ok ~= 'hash' then return false end
    local h = redis.call('HMGET', head, 'busy', 'due', 'quarantine')
    return not h[3] and (h[1] == '1' or (h[2] and h[2] ~= ''))
  end
  local conversation = string.match(member, '^%d+|[^|]*|([^|]+)|%d+$') or string.match(member, '^%d+|([^|]+)$')
  if not conversation then return false end
  local head = prefix .. 'c:' .. conversation .. ':head'
  if redis.call('TYPE', head).ok ~= 'hash' then return false end
  local ok, found = pcall(entries, prefix, conversation, redis.call('HGET', head, 'index'))
  return ok and found[key .. '\0' .. member]
end

local removed = 0
for i = 3, #ARGV do
  if not accounted(ARGV[i]) then removed = removed + redis.call('ZREM', key, ARGV[i]) end
end
return {'ok', removed}
