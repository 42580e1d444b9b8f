import { ActionIcon, Menu, useMantineColorScheme } from '@mantine/core';
import { IconDeviceDesktop, IconDots, IconLogout, IconMoon, IconSun, IconCheck } from '@tabler/icons-react';
import { endSession } from '../stores/session.ts';
import { useApi } from './api-context.ts';

const schemes = [
  { value: 'auto', label: 'Like the system', icon: IconDeviceDesktop },
  { value: 'light', label: 'Light', icon: IconSun },
  { value: 'dark', label: 'Dark', icon: IconMoon },
] as const;

/** What is about the person who looks: colours, and the login. */
export function PersonMenu() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const api = useApi();
  const logOut = (): void => {
    const ended = api.call('logout');
    // The login ends by itself too, should the controller not hear of it.
    void ended.catch(() => undefined);
    endSession('You are signed out.');
  };
  return (
    <Menu position="top-end" width={200}>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" aria-label="Appearance and login">
          <IconDots size={18} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>Appearance</Menu.Label>
        {schemes.map(({ value, label, icon: SchemeIcon }) => (
          <Menu.Item
            key={value}
            leftSection={<SchemeIcon size={16} aria-hidden />}
            rightSection={colorScheme === value ? <IconCheck size={14} aria-label="chosen" /> : null}
            onClick={() => setColorScheme(value)}
          >
            {label}
          </Menu.Item>
        ))}
        <Menu.Divider />
        <Menu.Item leftSection={<IconLogout size={16} aria-hidden />} onClick={logOut}>
          Sign out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
