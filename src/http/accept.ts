/** The media type in which a caller wants a response. */

/** Whether the caller prefers `type` to JSON, by quality value, then order (RFC 9110, 12.5.1). */
export function prefers(accept: string | null, type: string): boolean {
  const ranges = (accept ?? "")
    .toLowerCase()
    .split(",")
    .map((range) => range.split(";").map((part) => part.trim()));
  const rank = (wanted: string) => {
    const place = ranges.findIndex(([name]) => name === wanted);
    const quality = ranges[place]?.find((part) => part.startsWith("q="));
    return { place, quality: place < 0 ? 0 : quality === undefined ? 1 : Number(quality.slice(2)) };
  };
  const [own, json] = [rank(type), rank("application/json")];
  if (!(own.quality > 0)) return false;
  return own.quality === json.quality ? own.place < json.place : own.quality > json.quality;
}
