-- Read the first members of the same index of every bucket, each in its order, between two texts.
--
-- KEYS  none is declared: they lie in all buckets
-- ARGV  1 the index's key, with %02d for the bucket   2 how many buckets   3, 4 where the range begins and ends   5 how many of each at most
-- Returns {'ok', member, ...} | {'corrupt', what}

local out = {'ok'}
for bucket = 0, tonumber(ARGV[2]) - 1 do
  local key = string.format(ARGV[1], bucket)
  local count = redis.pcall('ZLEXCOUNT', key, ARGV[3], ARGV[4]) -- nearly always 0, which ZRANGEBYLEX says later
  if type(count) ~= 'number' then return {'corrupt', key .. ' is no sorted set'} end
  if count > 0 then
    for _, member in ipairs(redis.call('ZRANGEBYLEX', key, ARGV[3], ARGV[4], 'LIMIT', 0, ARGV[5])) do out[#out + 1] = member end
  end
end
return out
