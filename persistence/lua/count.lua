-- Add to counts, each of which only grows. A new name beyond the bound is left out; the names that are known go on.
--
-- KEYS  1 counts (hash)
-- ARGV  1 how many names there may be   then (name, what to add) pairs
-- Returns {'ok'} | {'corrupt', what}

local most = integer(ARGV[1])
if not most or #ARGV % 2 == 0 then return {'corrupt', 'arguments'} end
if not is(KEYS[1], 'hash') then return {'corrupt', 'the counts are no hash'} end
local sums = {}
local there = redis.call('HLEN', KEYS[1])
for i = 2, #ARGV, 2 do
  local by = integer(ARGV[i + 1])
  if ARGV[i] == '' or not by then return {'corrupt', 'arguments'} end
  local stands = redis.call('HGET', KEYS[1], ARGV[i])
  if stands and not integer(stands) then stands = '0' end
  if not stands then there = there + 1 end
  if stands or there <= most then
    sums[#sums + 1] = ARGV[i]
    sums[#sums + 1] = string.format('%.0f', (stands and tonumber(stands) or 0) + by)
  end
end
for i = 1, #sums, 2 do redis.call('HSET', KEYS[1], sums[i], sums[i + 1]) end
return {'ok'}
