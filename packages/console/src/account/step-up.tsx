/**
 * The password, and the code of the authenticator app if there is one, for calls that need both.
 */
import { useRead } from "../session/session.tsx";
import { CodeField, type FormValues, PasswordField } from "../ui/form.tsx";

export function useWhoAmI() {
  return useRead(["whoami"], (client) => client.auth.whoami());
}

export function StepUpFields({ recovery = false }: { recovery?: boolean }) {
  const isOn = useWhoAmI()?.totp?.enabled === true;
  return (
    <>
      <PasswordField label="Your password" />
      {isOn ? <CodeField recovery={recovery} /> : null}
    </>
  );
}

export function stepUp(values: FormValues): { password: string; totp_code?: string } {
  const code = values.text("code");
  return { password: values.text("password"), ...(code === "" ? {} : { totp_code: code }) };
}

/** The same for calls that accept a recovery code instead of the code. */
export function stepUpOrRecover(values: FormValues) {
  return { password: values.text("password"), ...values.code() };
}
