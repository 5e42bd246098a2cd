export type OnceBucket = Pick<R2Bucket, "put" | "head">;

/**
 * Puts an object, or leaves the one that is there, which the caller compares if it matters. R2 may
 * report a locked key as a failed condition or throw, so an error counts only without the object.
 */
export async function putOnce(
  bucket: OnceBucket,
  key: string,
  value: Uint8Array<ArrayBuffer> | string,
  options: Omit<R2PutOptions, "onlyIf">,
): Promise<void> {
  const onlyIf = new Headers({ "if-none-match": "*" });
  try {
    await bucket.put(key, value, { ...options, onlyIf });
  } catch (error) {
    const found = await bucket.head(key).catch(() => null);
    if (found === null) throw error;
  }
}
