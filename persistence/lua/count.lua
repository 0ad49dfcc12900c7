-- Add to counts, each of which only grows. New names beyond the bound are left out; known names still grow.
-- New names that differ only after their last `|`, like those of a histogram, are kept or left out together.
--
-- KEYS  counts (hash)
-- ARGV  1 how many names there may be   then (name, what to add) pairs
-- Returns {'ok'} | {'corrupt', what}

local most = integer(ARGV[1])
if not most or #ARGV % 2 == 0 then return {'corrupt', 'arguments'} end
local function group_of(name) return string.match(name, '^(.+)|[^|]*$') or name end
local stands, new = {}, {}
for i = 2, #ARGV, 2 do
  local name = ARGV[i]
  if name == '' or not integer(ARGV[i + 1]) then return {'corrupt', 'arguments'} end
  local found = redis.call('HGET', counts, name)
  if found then
    stands[name] = integer(found) and tonumber(found) or 0
  else
    new[group_of(name)] = (new[group_of(name)] or 0) + 1
  end
end
local there = redis.call('HLEN', counts)
local room, sums = {}, {}
for i = 2, #ARGV, 2 do
  local name = ARGV[i]
  local group, by = group_of(name), integer(ARGV[i + 1])
  if not stands[name] and room[group] == nil then
    room[group] = there + new[group] <= most
    if room[group] then there = there + new[group] end
  end
  if not stands[name] and room[group] or by ~= 0 and stands[name] then
    sums[#sums + 1] = name
    sums[#sums + 1] = string.format('%.0f', (stands[name] or 0) + by)
  end
end
for i = 1, #sums, 2 do redis.call('HSET', counts, sums[i], sums[i + 1]) end
return {'ok'}
