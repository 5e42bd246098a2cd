/**
 * Where tests end the process. The setting FAULT_HOOK_URL exists in no deployment and in no configuration of ours; a
 * journey sets it, is asked at each point, and kills workerd while the question is open.
 */
export function faultHook(env: object): ((point: string) => Promise<void>) | undefined {
  const url: unknown = Reflect.get(env, "FAULT_HOOK_URL");
  if (typeof url !== "string") return undefined;
  return async (point) => {
    await fetch(`${url}?point=${encodeURIComponent(point)}`);
  };
}
