# Makes CSV of a Markdown table. Commas within a cell become semicolons.
/^\|---/ { next }
{
  gsub(/,/, ";")
  gsub(/^\| *| *\|$/, "")
  gsub(/ *\| */, ",")
  print
}
